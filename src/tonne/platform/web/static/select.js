// The box in the head of a list selects all rows, and the button says how many are selected.
"use strict";

for (const form of document.querySelectorAll("form[data-select]")) {
  const all = form.querySelector("[data-all]");
  const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
  const button = form.querySelector("button:not([hidden])");
  const label = button.textContent;
  const show = () => {
    const count = boxes.filter((box) => box.checked).length;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
    button.textContent = count ? `${label}: ${count}` : label;
  };
  all.hidden = !boxes.length;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
  });
  form.addEventListener("change", show);
  show();
}
