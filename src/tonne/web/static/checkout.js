// Prevents a double click from submitting a form twice, and reloads the page when the order progresses.
"use strict";

for (const form of document.querySelectorAll("form[data-once]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    form.querySelector("button").setAttribute("aria-disabled", "true");
  });
}
// The back button may restore the page from the cache, where the form would stay blocked.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

const followed = document.querySelector("[data-follow]:not([data-follow=''])");

async function poll() {
  try {
    const answer = await fetch(followed.dataset.follow);
    if (answer.ok && (await answer.json()).state !== followed.dataset.state) {
      location.replace(location.pathname);
      return;
    }
  } catch {
    // Offline: try again below.
  }
  setTimeout(poll, 1500);
}

if (followed) setTimeout(poll, 1000);
