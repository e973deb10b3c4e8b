// Buttons that copy the text of an element. Without this script they stay hidden.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) {
    continue;
  }
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = button.dataset.copied || "Copied";
    setTimeout(() => {
      button.textContent = label;
    }, 2000);
  });
}
