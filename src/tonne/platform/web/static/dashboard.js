// Times in the zone of the browser, and the menu on narrow screens. The page works without this script.
"use strict";

for (const element of document.querySelectorAll("time[datetime]")) {
  const at = new Date(element.dateTime);
  element.title = element.textContent;
  const timeStyle = element.closest("[data-seconds]") ? "medium" : "short";
  element.textContent = at.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle });
}

const button = document.querySelector("button.menu");
const menu = document.getElementById("menu");
if (button && menu) {
  const narrow = matchMedia("(max-width: 59.99rem)");
  const show = (open) => {
    button.hidden = !narrow.matches;
    menu.hidden = narrow.matches && !open;
    button.setAttribute("aria-expanded", String(!menu.hidden));
  };
  show(false);
  narrow.addEventListener("change", () => show(false));
  button.addEventListener("click", () => show(menu.hidden));
}
