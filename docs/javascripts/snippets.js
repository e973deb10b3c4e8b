// The code of the pages for this reader: with the address of this service, and with a test key if they ask for one.
// The tables: cells know the title of their column, which a phone shows beside them.
"use strict";

const ADDRESS = /http:\/\/localhost:8080/g;
const KEY = /tonne_test_…|\$\(jq -r \.test\.api_key var\/demo\.json\)|\$KEY\b/g;

// Highlighting divides the text into many nodes. The last match goes first: the positions of the others stay the same.
function replaceText(element, pattern, text) {
  const nodes = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const match of [...element.textContent.matchAll(pattern)].reverse()) {
    let start = 0;
    let added = text;
    for (const node of nodes) {
      const length = node.data.length;
      const from = Math.max(match.index - start, 0);
      const to = Math.min(match.index + match[0].length - start, length);
      if (from < to) {
        node.replaceData(from, to - from, added);
        added = "";
      }
      start += length;
    }
  }
}

const blocks = [...document.querySelectorAll(".md-content pre code")];
for (const block of blocks) replaceText(block, ADDRESS, location.origin);

const keyed = blocks.filter((block) => block.textContent.search(KEY) >= 0);
if (keyed.length) {
  import("/docs/try/assets/test-key.js").then(({ offerTestKey }) => {
    const place = document.createElement("div");
    offerTestKey(place, (key) => {
      for (const block of keyed) replaceText(block, KEY, key);
      // Not inside of the block: on a phone it reaches the edges of the screen.
    }).then((isOffered) => isOffered && keyed[0].closest(".highlight").before(place));
  });
}

for (const table of document.querySelectorAll(".md-content table")) {
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
  for (const row of table.tBodies[0]?.rows ?? []) {
    for (const cell of row.cells) if (cell.cellIndex && titles[cell.cellIndex]) cell.dataset.label = titles[cell.cellIndex];
  }
}
