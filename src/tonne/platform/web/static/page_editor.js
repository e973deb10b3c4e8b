// Renews the preview while one types. Without this script, a button does the same.
"use strict";

const form = document.querySelector("form[data-editor]");
if (form) {
  const preview = form.querySelector("[data-preview]");
  const logo = form.querySelector("input[type=file]");
  const hint = document.getElementById("logo-hint");
  const text = hint.textContent;
  let timer = 0;
  preview.hidden = true;
  form.addEventListener("input", () => {
    const file = logo.files[0];
    const isTooLarge = file && file.size > Number(logo.dataset.most);
    hint.className = isTooLarge ? "fault" : "hint";
    hint.textContent = isTooLarge ? `This file has ${Math.ceil(file.size / 1024)} KB. ${text}` : text;
    if (isTooLarge) logo.value = "";
    clearTimeout(timer);
    timer = setTimeout(() => form.requestSubmit(preview), 400);
  });
}
