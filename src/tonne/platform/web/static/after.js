// Shares, copies and prints, where the browser can. Without this script the buttons stay hidden.
"use strict";

(() => {
  for (const button of document.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => window.print());
  }
  for (const part of document.querySelectorAll("[data-share]")) {
    const url = part.dataset.share;
    const share = part.querySelector("[data-share-button]");
    const copy = part.querySelector("[data-copy-button]");
    if (navigator.share) {
      share.hidden = false;
      share.addEventListener("click", async () => {
        try {
          await navigator.share({ url, text: part.dataset.shareText });
        } catch {
          // The visitor closed the dialogue.
        }
      });
    }
    if (navigator.clipboard) {
      const label = copy.textContent;
      copy.hidden = false;
      copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(url);
        copy.textContent = copy.dataset.copied;
        part.querySelector("[data-share-status]").textContent = copy.dataset.copied;
        setTimeout(() => {
          copy.textContent = label;
        }, 2000);
      });
    }
  }
})();
