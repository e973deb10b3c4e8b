// Checks a PDF on the visitor's device: the file is hashed here and never uploaded.
"use strict";

(() => {
  const zone = document.getElementById("drop");
  const chooser = document.getElementById("file");
  const result = document.getElementById("result");
  const LARGEST = 64 * 1024 * 1024;
  // Numbers the checks, so that a slow one cannot overwrite the result of a later one.
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

  const wasSent = (page, sha256) => page.querySelector(`[data-sha256="${sha256}"]`) !== null;

  // A PDF may have been sent out since this page was loaded, so load it once more. Nothing about the file is sent.
  const wasSentSince = async (sha256) => {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return wasSent(new DOMParser().parseFromString(await answer.text(), "text/html"), sha256);
  };

  const hash = async (file) => {
    const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  const resultOf = async (file) => {
    const name = `“${file.name}”`;
    const no = ["notice bad", "Not genuine.", `We haven't sent out ${name} for this certificate, or it was changed since. ` +
      "Printing or re-saving a PDF changes it, so ask for the original file."];
    if (file.size > LARGEST) return no;
    let sha256;
    try {
      sha256 = await hash(file);
    } catch {
      return ["notice warn", "Couldn't check the file.", `${name} can't be read. Check that it is a file and still exists.`];
    }
    try {
      if (!wasSent(document, sha256) && !(await wasSentSince(sha256))) return no;
    } catch {
      return ["notice warn", "Couldn't check the file.", "Our server didn't respond. Try again in a minute."];
    }
    return ["notice", "Genuine.", `${name} is an unchanged copy of a PDF that we sent out for this certificate.`];
  };

  const check = async (file) => {
    turn += 1;
    const own = turn;
    result.replaceChildren();
    const verdict = await resultOf(file);
    if (own === turn) show(...verdict);
  };

  chooser.addEventListener("change", () => {
    if (chooser.files.length) check(chooser.files[0]);
  });
  // A file dropped outside the zone would otherwise replace this page.
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
    else if (files.length) show("notice warn", "One file at a time.", "Drop a single file.");
  });
})();
