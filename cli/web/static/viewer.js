// Tools to look closer at the items: zoom and move all images at once, flip a pair, play sounds.
"use strict";

const STEP = 1.5, MOST = 8; // of a zoom
const MOVES = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
let zoom = { scale: 1, x: 0, y: 0 }; // x and y: shares of the frame
let drag = null; // the frame and the pointer's place, while an image is moved

const pictures = () => [...document.querySelectorAll(".frame")];

function setZoom(scale, x = zoom.x, y = zoom.y) {
  scale = Math.min(Math.max(scale, 1), MOST);
  const limit = (scale - 1) / 2; // so that no edge of the image is inside its frame
  const clamp = (value) => Math.min(Math.max(value, -limit), limit);
  zoom = { scale, x: clamp(x), y: clamp(y) };
  for (const frame of pictures()) {
    frame.classList.toggle("zoomed", scale > 1);
    frame.firstChild.style.transform = `translate(${100 * zoom.x}%, ${100 * zoom.y}%) scale(${scale})`;
  }
}

const zoomBy = (factor) => setZoom(zoom.scale * factor, zoom.x * factor, zoom.y * factor);

function moveBy([x, y]) {
  setZoom(zoom.scale, zoom.x + x / 5, zoom.y + y / 5);
}

// Show the two items in each other's place.
function flip(isOn) {
  document.getElementById("pair").classList.toggle("flipped", isOn);
}

const isFlipped = () => document.getElementById("pair").classList.contains("flipped");

function play(side) {
  for (const audio of document.querySelectorAll(".item audio")) {
    if (audio.closest(".card").id === side && audio.paused) audio.play().catch(() => {});
    else audio.pause();
  }
}

document.addEventListener("pointerdown", (event) => {
  const frame = event.target.closest(".frame.zoomed");
  if (!frame || !event.isPrimary) return;
  event.preventDefault(); // or the browser would drag the image itself
  drag = { frame, place: [event.clientX, event.clientY] };
});
document.addEventListener("pointermove", (event) => {
  if (!drag || !event.isPrimary) return;
  const [x, y] = drag.place;
  const { clientWidth, clientHeight } = drag.frame;
  drag.place = [event.clientX, event.clientY];
  setZoom(zoom.scale, zoom.x + (event.clientX - x) / clientWidth, zoom.y + (event.clientY - y) / clientHeight);
});
for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, () => { drag = null; });
document.addEventListener("dragstart", (event) => event.target.closest(".frame") && event.preventDefault());
