// Refreshes the parts of a page that change (`data-live`, with an id) every few seconds while the page is visible, until
// it waits for nothing any more. Without this script, a link reloads the page. `showTimes` is in dashboard.js.
"use strict";

const EVERY_MS = 5000;
// A forgotten tab must not keep its session alive for ever.
const STOP_AFTER_MS = 30 * 60 * 1000;
const note = document.getElementById("refresh");
let since = Date.now();
let timer = 0;

const say = (text) => {
  note.textContent = text;
};

const refresh = async () => {
  if (document.hidden || !timer) return;
  if (Date.now() - since > STOP_AFTER_MS) {
    say("Paused. Reload the page to go on.");
    return;
  }
  try {
    const answer = await fetch(location.href, { redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const parts = [...document.querySelectorAll("[data-live]")].map((old) => [old, page.getElementById(old.id)]);
    if (!answer.ok || !parts.some(([, fresh]) => fresh)) throw new Error(String(answer.status));
    for (const [old, fresh] of parts) {
      // Somebody who uses a part keeps it as it is.
      if (!fresh || old.contains(document.activeElement)) continue;
      showTimes(fresh);
      const opened = [...old.querySelectorAll("details")].map((each) => each.open);
      for (const [index, each] of fresh.querySelectorAll("details").entries()) each.open ||= opened[index] === true;
      old.replaceWith(fresh);
    }
    if (page.getElementById("refresh")) {
      say("Refreshes every 5 seconds");
    } else {
      clearInterval(timer);
      timer = 0;
      say("Up to date");
    }
  } catch {
    say("Not refreshed: the server did not answer. Trying again.");
  }
};

document.addEventListener("visibilitychange", () => {
  since = Date.now();
  if (!document.hidden) refresh();
});
say("Refreshes every 5 seconds");
timer = setInterval(refresh, EVERY_MS);
