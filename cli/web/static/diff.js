// The difference between two texts, word by word.
"use strict";

const MOST_CELLS = 4e6; // of the table of common words: 8 MB, about 30 ms

const wordsOf = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^]/gu) || [];

// [[words, whether the other text has them, too], ...] for each text; null if they are too long.
function difference(left, right) {
  const a = wordsOf(left), b = wordsOf(right);
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const common = longestCommon(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return common && [a, b].map((words, side) => {
    const same = words.map((_, k) => k < start || k >= words.length - end || common[side].has(k - start));
    return runs(words, same);
  });
}

// The places of the longest common subsequence in both lists.
function longestCommon(a, b) {
  const width = b.length + 1;
  if ((a.length + 1) * width > MOST_CELLS) return null;
  const lengths = new Uint16Array((a.length + 1) * width); // for the ends of the lists, from i and j
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
  const places = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { places[0].add(i++); places[1].add(j++); }
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return places;
}

// Join neighbouring words that are both in the other text, or both not.
function runs(words, same) {
  const joined = [];
  words.forEach((word, k) => {
    if (k && same[k] === same[k - 1]) joined.at(-1)[0] += word;
    else joined.push([word, same[k]]);
  });
  return joined;
}

// Draw the difference into both texts; returns whether they are short enough.
function drawDifference(boxes, texts) {
  const parts = difference(...texts);
  if (!parts) return false;
  parts.forEach((partsOfSide, side) => boxes[side].replaceChildren(...partsOfSide.map(([words, same]) =>
    same ? words : Object.assign(document.createElement(side ? "ins" : "del"), { textContent: words }))));
  return true;
}
