// A button that shares the address of the page, or copies it if the browser cannot share.
"use strict";

(() => {
  for (const button of document.querySelectorAll("button[data-share]")) {
    const label = button.textContent;
    if (!navigator.share && !navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const url = button.dataset.share;
      try {
        if (navigator.share) {
          await navigator.share({ title: document.title, url });
          return;
        }
        await navigator.clipboard.writeText(url);
      } catch {
        return; // The visitor closed the dialogue.
      }
      button.textContent = button.dataset.done;
      setTimeout(() => {
        button.textContent = label;
      }, 2000);
    });
  }
})();
