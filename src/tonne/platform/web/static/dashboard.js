// Times in the reader's zone and format, also of rows that other scripts load, and the menu on narrow screens.
// The page works without this script.
"use strict";

const showTimes = (root) => {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const timeStyle = element.closest("[data-seconds]") ? "medium" : "short";
    const at = new Date(element.dateTime);
    element.title = element.textContent;
    element.textContent = at.toLocaleString(document.documentElement.dataset.locale, { dateStyle: "medium", timeStyle });
  }
};
showTimes(document);

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
