// Mark the difference between two texts, word by word.
"use strict";

const MOST_CELLS = 4e6; // cells of the table of common words: 8 MB, about 30 ms

const wordsOf = (text) => text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^]/gu) || [];

// Compare two texts. Returns for each text its parts, [[words, whether both texts have them], ...];
// null if the texts are too long.
function difference(left, right) {
  const leftWords = wordsOf(left);
  const rightWords = wordsOf(right);
  // The common words at both ends need no table.
  const shorter = Math.min(leftWords.length, rightWords.length);
  let start = 0;
  while (start < shorter && leftWords[start] === rightWords[start]) start++;
  let end = 0;
  while (end < shorter - start && leftWords.at(-1 - end) === rightWords.at(-1 - end)) end++;
  const common = longestCommon(
    leftWords.slice(start, leftWords.length - end), rightWords.slice(start, rightWords.length - end));
  if (common === null) return null;
  return [leftWords, rightWords].map((words, side) => {
    const isCommon = words.map((_, k) => k < start || k >= words.length - end || common[side].has(k - start));
    return joinedParts(words, isCommon);
  });
}

// Find the longest common subsequence of two lists. Returns the places of its words in each list;
// null if the lists are too long.
function longestCommon(a, b) {
  const width = b.length + 1;
  if ((a.length + 1) * width > MOST_CELLS) return null;
  // lengths[i * width + j]: the length of the longest common subsequence of a.slice(i) and b.slice(j).
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const cell = i * width + j;
      if (a[i] === b[j]) lengths[cell] = lengths[cell + width + 1] + 1;
      else lengths[cell] = Math.max(lengths[cell + width], lengths[cell + 1]);
    }
  }
  const places = [new Set(), new Set()];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    const cell = i * width + j;
    if (a[i] === b[j]) {
      places[0].add(i++);
      places[1].add(j++);
    } else if (lengths[cell + width] >= lengths[cell + 1]) {
      i++;
    } else {
      j++;
    }
  }
  return places;
}

// Join neighbouring words that are both common, or both not.
function joinedParts(words, isCommon) {
  const parts = [];
  words.forEach((word, k) => {
    if (k > 0 && isCommon[k] === isCommon[k - 1]) parts.at(-1)[0] += word;
    else parts.push([word, isCommon[k]]);
  });
  return parts;
}

// Mark in both texts what differs, and return true; return false if the texts are too long.
function drawDifference(boxes, texts) {
  const parts = difference(...texts);
  if (parts === null) return false;
  parts.forEach((partsOfText, side) => {
    const tag = side === 0 ? "del" : "ins";
    const nodes = partsOfText.map(([words, isCommon]) =>
      isCommon ? words : Object.assign(document.createElement(tag), { textContent: words }));
    boxes[side].replaceChildren(...nodes);
  });
  return true;
}
