// Verifies a PDF or a credential on the visitor's device: only the hash of a PDF and the certificate number are sent.
// Without this script, or on a page without https, the form uploads the file instead.
"use strict";

(() => {
  const form = document.getElementById("drop");
  if (!form) return;
  const chooser = document.getElementById("file");
  const problem = document.getElementById("problem");
  const LARGEST = 64 * 1024 * 1024;
  const STORED = "checks";
  const isPrivate = Boolean(window.crypto && crypto.subtle);
  // Numbers the checks, so that a slow one cannot overrule a later one.
  let turn = 0;

  const hash = async (bytes) => {
    const digest = await crypto.subtle.digest("SHA-256", bytes);
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  // Checks with the keys that the issuer publishes.
  const examine = async ({ credentials, proofs }) => {
    if (credentials.length === 0) return [{ check: "credential", verdict: "unchecked", text: "no_credential" }];
    try {
      const [{ examine: run }, response] = await Promise.all([
        import(form.dataset.proof),
        fetch("/.well-known/tonne-issuer.json"),
      ]);
      return await run(credentials, proofs, await response.json());
    } catch {
      return [{ check: "credential", verdict: "unchecked", text: "no_keys" }];
    }
  };

  const refuse = (reason) => {
    problem.replaceChildren(document.getElementById(reason).content.cloneNode(true));
    form.classList.remove("busy");
    chooser.value = "";
  };

  const verify = async (file) => {
    turn += 1;
    const own = turn;
    problem.replaceChildren();
    if (file.size === 0) return refuse("problem-empty");
    if (file.size > LARGEST) return refuse("problem-large");
    form.classList.add("busy");
    let bytes;
    let reader;
    try {
      [bytes, reader] = await Promise.all([file.arrayBuffer(), import(form.dataset.reader)]);
    } catch {
      return refuse("problem-unreadable");
    }
    bytes = new Uint8Array(bytes);
    const found = await reader.readFile(bytes);
    if (!found) return refuse("problem-kind");
    const sha256 = await hash(bytes);
    const { isPdf, isSigned, credentialNumber } = found;
    const lines = await examine(found);
    if (own !== turn) return;
    try {
      // The next page shows the results. They stay in this tab.
      sessionStorage.setItem(STORED, JSON.stringify({ sha256, isPdf, isSigned, credentialNumber, lines }));
    } catch {
      // Storage may be switched off. The verdict on the hash is shown anyway.
    }
    if (!isPdf) {
      // The part after # is not sent. If the page is open already, the browser does not load it again.
      location.assign(`/verify/${credentialNumber}#${sha256}`);
      form.classList.remove("busy");
      return showChecks();
    }
    const asked = new URLSearchParams({ sha256 });
    const number = found.number || form.dataset.number;
    if (number) asked.set("number", number);
    location.assign(`/verify?${asked}`);
  };

  const part = (name) => document.getElementById(name)?.content.cloneNode(true);

  const explain = ({ text, values = {} }) => {
    const found = part(`text-${text}`) || part("text-malformed");
    for (const slot of found.querySelectorAll("[data-value]")) {
      const value = values[slot.dataset.value];
      slot.textContent = typeof value === "number" ? value.toLocaleString(document.documentElement.dataset.locale) : value;
    }
    return found;
  };

  const showLine = (list, { check, verdict, texts }) => {
    const item = document.createElement("li");
    item.className = verdict;
    item.append(part(`verdict-${verdict}`), part(`check-${check}`), ...texts.map(explain));
    list.append(item);
  };

  // Shows what was checked before this page was opened, if it was about the same file.
  const showChecks = async () => {
    const section = document.getElementById("checks");
    const sha256 = new URLSearchParams(location.search).get("sha256") || location.hash.slice(1);
    let stored;
    try {
      stored = JSON.parse(sessionStorage.getItem(STORED));
    } catch {
      return;
    }
    if (!section || !stored || stored.sha256 !== sha256) return;
    const lines = stored.lines;
    if (stored.isPdf) {
      const isOriginal = section.dataset.match === "original";
      const signature = !stored.isSigned ? "pdf_unsigned" : isOriginal ? "pdf_matches" : "pdf_unknown";
      lines.unshift(
        { check: "file", verdict: isOriginal ? "holds" : "fails", text: isOriginal ? "file_original" : "file_unknown" },
        { check: "pdf", verdict: stored.isSigned && isOriginal ? "holds" : "unchecked", text: signature },
      );
    }
    if (stored.credentialNumber && stored.credentialNumber !== section.dataset.number) {
      const values = { number: stored.credentialNumber };
      lines.push({ check: "facts", verdict: "fails", text: "other_number", values });
    }
    const { summarise } = await import(form.dataset.proof);
    const list = document.getElementById("check-lines");
    list.replaceChildren();
    for (const each of summarise(lines)) showLine(list, each);
    section.hidden = false;
  };

  if (isPrivate) {
    document.getElementById("stays").hidden = false;
    document.getElementById("uploaded").hidden = true;
    document.getElementById("upload").hidden = true;
    chooser.accept += ",application/json,.json";
  }
  document.getElementById("drop-here").hidden = false;
  showChecks();

  chooser.addEventListener("change", () => {
    if (chooser.files.length && isPrivate) verify(chooser.files[0]);
  });
  // The page may be shown again from the browser's history.
  window.addEventListener("pageshow", () => {
    form.classList.remove("busy");
    if (isPrivate) chooser.value = "";
  });
  // A file dropped outside the zone would otherwise replace this page.
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      form.classList.toggle("over", kind !== "drop" && kind !== "dragleave" && form.contains(event.target));
    });
  }
  form.addEventListener("drop", (event) => {
    const files = event.dataTransfer.files;
    if (files.length > 1) refuse("problem-several");
    else if (files.length && isPrivate) verify(files[0]);
    else if (files.length) {
      chooser.files = files;
      form.submit();
    }
  });
})();
