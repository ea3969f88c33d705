// Questions about three to six items: draw a card for each item, and let the best and the worst be chosen.
"use strict";

const MOST_PLACES = 6;
let best = null; // the place of the item that is chosen as the best, while the worst is asked for
let chosenAt = 0; // performance.now() at the last choice

const places = [...Array(MOST_PLACES).keys()];
const cardOf = (place) => document.getElementById(`place-${place}`);

// Draw a card for each item; `contentOf` makes the elements of an item with a name.
function drawSet(items, contentOf) {
  document.getElementById("set").dataset.items = items.length;
  for (const place of places) {
    const box = cardOf(place).querySelector(".item");
    const isUnused = place >= items.length;
    cardOf(place).hidden = isUnused;
    document.querySelector(`[data-act=place-${place}]`).hidden = isUnused;
    box.replaceChildren();
    if (isUnused) continue;
    const inside = document.createElement("div");
    inside.className = "inside";
    inside.append(...contentOf(`item ${place + 1}`, items[place]));
    box.append(inside);
    box.scrollTop = 0;
  }
}

// Write in the bar what is asked next, and mark the card of the best item.
function drawChoice() {
  const role = best === null ? "best" : "worst"; // the role of the item that is chosen next
  const prompt = best === null ? "Which is the best?" : `${best + 1} is the best. Which is the worst?`;
  if (document.getElementById("asked").textContent !== prompt) document.getElementById("asked").textContent = prompt;
  document.querySelector("[data-act=same]").disabled = best !== null;
  for (const place of places) {
    const isBest = place === best;
    cardOf(place).classList.toggle("best", isBest);
    cardOf(place).querySelector(".chosen").textContent = isBest ? "Best" : "";
    const placeButton = document.querySelector(`[data-act=place-${place}]`);
    placeButton.setAttribute("aria-pressed", isBest);
    placeButton.setAttribute("aria-label", isBest ? `${place + 1} is the best: take it back` : `${place + 1} is the ${role}`);
  }
}

function setBest(place) {
  best = place;
  chosenAt = performance.now();
  drawChoice();
}

// Choose the item at a place. When the choice is complete, `send` gets the places of the best and the
// worst item.
function choose(place, isWorstAsked, send) {
  if (place === best) {
    // A second press within this time was a double click.
    if (performance.now() - chosenAt > DOUBLE_PRESS) setBest(null);
  } else if (best !== null) {
    send({ best, worst: place });
  } else if (isWorstAsked) {
    setBest(place);
  } else {
    send({ best: place });
  }
}
