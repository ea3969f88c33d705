// A question about three to six items: their cards, and the choice of the best, then of the worst.
"use strict";

const MOST_PLACES = 6;
let best = null; // the place of the item chosen as the best, while the worst is asked for
let chosenAt = 0;

const places = [...Array(MOST_PLACES).keys()];
const cardOf = (place) => document.getElementById(`place-${place}`);

// Draw a card for each item.
function drawSet(items, contentOf) {
  document.getElementById("set").dataset.items = items.length;
  for (const place of places) {
    const box = cardOf(place).querySelector(".item");
    cardOf(place).hidden = document.querySelector(`[data-act=place-${place}]`).hidden = place >= items.length;
    box.replaceChildren();
    if (place >= items.length) continue;
    const inside = document.createElement("div");
    inside.className = "inside";
    inside.append(...contentOf(`item ${place + 1}`, items[place]));
    box.append(inside);
    box.scrollTop = 0;
  }
}

// Draw what is asked next in the bar, and the choice of the best on the cards.
function drawChoice() {
  const role = best === null ? "best" : "worst"; // of the item that is chosen next
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

// Choose a place; `send` gets the places of the best and the worst when the choice is complete.
function choose(place, isWorstAsked, send) {
  if (place === best) {
    // A second press within this time was a double click.
    if (performance.now() - chosenAt > DOUBLE_PRESS) setBest(null);
  } else if (best !== null) send({ best, worst: place });
  else if (isWorstAsked) setBest(place);
  else send({ best: place });
}
