// Refreshes the tables every few seconds while the page is visible. Without this script, a link reloads the page.
"use strict";

const EVERY_MS = 5000;
// A forgotten tab must not keep its session alive for ever.
const STOP_AFTER_MS = 30 * 60 * 1000;
const note = document.getElementById("refresh");
let since = Date.now();

const say = (text) => {
  note.textContent = text;
};

const refresh = async () => {
  if (document.hidden) return;
  if (Date.now() - since > STOP_AFTER_MS) {
    say("Paused. Reload the page to go on.");
    return;
  }
  try {
    const answer = await fetch(location.href, { redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("live");
    if (!answer.ok || !fresh) throw new Error(String(answer.status));
    document.getElementById("live").replaceWith(fresh);
    showTimes(fresh);
    say("Refreshes every 5 seconds");
  } catch {
    say("Not refreshed: the server did not answer. Trying again.");
  }
};

document.addEventListener("visibilitychange", () => {
  since = Date.now();
  if (!document.hidden) refresh();
});
say("Refreshes every 5 seconds");
setInterval(refresh, EVERY_MS);
