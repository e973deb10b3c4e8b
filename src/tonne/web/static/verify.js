// Checks a PDF on the visitor's own device: the file is hashed here and sent nowhere.
"use strict";

(() => {
  const zone = document.getElementById("drop");
  const chooser = document.getElementById("file");
  const result = document.getElementById("result");
  const LARGEST = 64 * 1024 * 1024;
  // Counts the files, so that a slow one cannot overwrite the answer for a later one.
  let turn = 0;

  if (!window.crypto || !crypto.subtle) {
    document.getElementById("insecure").hidden = false;
    return;
  }
  zone.hidden = false;
  if (!result.firstElementChild) document.getElementById("by-hand").open = false;

  const show = (kind, verdict, text) => {
    const notice = document.createElement("p");
    const strong = document.createElement("strong");
    notice.className = kind;
    strong.textContent = verdict;
    notice.append(strong, ` ${text}`);
    result.replaceChildren(notice);
  };

  const sentOut = (page, sha256) => page.querySelector(`[data-sha256="${sha256}"]`) !== null;

  // A file may have gone out since this page was loaded, so the page is asked for once more, without a word of the file.
  const sentOutSince = async (sha256) => {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return sentOut(new DOMParser().parseFromString(await answer.text(), "text/html"), sha256);
  };

  const hash = async (file) => {
    const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  const verdictOn = async (file) => {
    const name = `“${file.name}”`;
    const no = ["notice bad", "Not one of ours.", `We did not send out ${name} under this number, or it was changed since. ` +
      "Printing a PDF or saving it anew changes it too, so ask for the file as it was sent."];
    if (file.size > LARGEST) return no;
    let sha256;
    try {
      sha256 = await hash(file);
    } catch {
      return ["notice warn", "That did not work.", `${name} could not be read. Is it a file, and is it still there?`];
    }
    try {
      if (!sentOut(document, sha256) && !(await sentOutSince(sha256))) return no;
    } catch {
      return ["notice warn", "That did not work.", "We could not be reached just now. Try it again in a minute."];
    }
    return ["notice", "Genuine.", `${name} is, byte for byte, a certificate that we sent out under this number.`];
  };

  const check = async (file) => {
    turn += 1;
    const own = turn;
    result.replaceChildren();
    const verdict = await verdictOn(file);
    if (own === turn) show(...verdict);
  };

  chooser.addEventListener("change", () => {
    if (chooser.files.length) check(chooser.files[0]);
  });
  // Beside the zone a dropped file would be opened in place of this page.
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      const isOver = kind !== "drop" && kind !== "dragleave" && zone.contains(event.target);
      zone.classList.toggle("over", isOver);
    });
  }
  zone.addEventListener("drop", (event) => {
    const files = event.dataTransfer.files;
    if (files.length === 1) check(files[0]);
    else if (files.length) show("notice warn", "One at a time.", "Drop a single file, please.");
  });
})();
