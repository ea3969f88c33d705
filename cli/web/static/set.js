// A question about three to six items: their cards, and the choice of the best, then of the worst.
"use strict";

const MOST_PLACES = 6;
let best = null; // the place of the item chosen as the best, while the worst is asked for
let chosenAt = 0;

const places = [...Array(MOST_PLACES).keys()];
const cardOf = (place) => document.getElementById(`place-${place}`);

// Cards for the items: as many as there are, in a grid.
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

// What is asked now, and what is chosen: in the bar, and on the cards.
function drawChoice() {
  const asked = best === null ? "best" : "worst";
  const text = best === null ? "Which is the best?" : `${best + 1} is the best. Which is the worst?`;
  if (document.getElementById("asked").textContent !== text) document.getElementById("asked").textContent = text;
  document.querySelector("[data-act=same]").disabled = best !== null;
  for (const place of places) {
    const isBest = place === best;
    cardOf(place).classList.toggle("best", isBest);
    cardOf(place).querySelector(".chosen").textContent = isBest ? "Best" : "";
    const pressed = document.querySelector(`[data-act=place-${place}]`);
    pressed.setAttribute("aria-pressed", isBest);
    pressed.setAttribute("aria-label", isBest ? `${place + 1} is the best: take it back` : `${place + 1} is the ${asked}`);
  }
}

function setBest(place) {
  best = place;
  chosenAt = performance.now();
  drawChoice();
}

// A press on a place: `send` gets the best and the worst place when both are known.
function choose(place, isWorstAsked, send) {
  if (place === best) {
    // A second press at once was a double click.
    if (performance.now() - chosenAt > AT_ONCE) setBest(null);
  } else if (best !== null) send({ best, worst: place });
  else if (isWorstAsked) setBest(place);
  else send({ best: place });
}
