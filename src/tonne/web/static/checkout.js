// Keeps a second click from sending a form again, and follows the order while the page is open.
"use strict";

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    form.querySelector("button").setAttribute("aria-disabled", "true");
  });
}
// Coming back with the browser's back button finds the form as it was: it may be sent again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

const followed = document.querySelector("[data-follow]:not([data-follow=''])");

async function look() {
  try {
    const answer = await fetch(followed.dataset.follow);
    if (answer.ok && (await answer.json()).state !== followed.dataset.state) {
      location.replace(location.pathname);
      return;
    }
  } catch {
    // Offline for a moment: look again.
  }
  setTimeout(look, 1500);
}

if (followed) setTimeout(look, 1000);
