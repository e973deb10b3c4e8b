// Prevents a double click from submitting a form twice, fills in test cards, and reloads the page when the order
// progresses.
"use strict";

(() => {
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

  const isDesktop = window.matchMedia("(min-width: 52rem)");
  for (const details of document.querySelectorAll("[data-open-on-desktop]")) {
    details.open = isDesktop.matches;
    isDesktop.addEventListener("change", () => {
      details.open = isDesktop.matches;
    });
  }

  const number = document.getElementById("card-number");
  for (const card of document.querySelectorAll("[data-number]")) {
    card.addEventListener("change", () => {
      number.value = card.dataset.number;
    });
  }

})();

(() => {
  const followed = document.querySelector("[data-follow]:not([data-follow=''])");
  if (!followed) return;
  let pause = 1000;
  let timer = 0;

  async function poll() {
    timer = 0;
    try {
      const answer = await fetch(followed.dataset.follow);
      if (answer.ok && (await answer.json()).state !== followed.dataset.state) {
        location.replace(location.pathname);
        return;
      }
    } catch {
      // Offline: try again below.
    }
    // A retirement can take days: a page that stays open asks less and less often.
    pause = Math.min(pause * 1.15, 20000);
    wait();
  }

  function wait() {
    if (!timer && !document.hidden) timer = setTimeout(poll, pause);
  }

  // A page in the background does not ask, and asks at once when it is looked at again.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    timer = 0;
    pause = 1000;
    if (!document.hidden) poll();
  });
  wait();
})();
