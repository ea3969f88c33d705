// Tools to look closer at the items: zoom and move all images at once, flip a pair, play sounds.
"use strict";

const STEP = 1.5; // the factor by which a press of a button zooms
const LARGEST_SCALE = 8;
const MOVES = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
let zoom = { scale: 1, x: 0, y: 0 }; // x and y: how far the images are moved, as shares of a frame
let drag = null; // the frame and the pointer's place, while an image is moved

// Zoom all images, and move them; no edge of an image comes inside its frame.
function setZoom(wantedScale, x = zoom.x, y = zoom.y) {
  const scale = Math.min(Math.max(wantedScale, 1), LARGEST_SCALE);
  const limit = (scale - 1) / 2;
  const clamp = (value) => Math.min(Math.max(value, -limit), limit);
  zoom = { scale, x: clamp(x), y: clamp(y) };
  for (const frame of document.querySelectorAll(".frame")) {
    frame.classList.toggle("zoomed", scale > 1);
    frame.firstChild.style.transform = `translate(${100 * zoom.x}%, ${100 * zoom.y}%) scale(${scale})`;
  }
}

const zoomBy = (factor) => setZoom(zoom.scale * factor, zoom.x * factor, zoom.y * factor);

function moveBy([x, y]) {
  setZoom(zoom.scale, zoom.x + x / 5, zoom.y + y / 5);
}

// Show the two items of a pair in each other's place, or in their own places again.
function flip(isOn) {
  document.getElementById("pair").classList.toggle("flipped", isOn);
}

const isFlipped = () => document.getElementById("pair").classList.contains("flipped");

// Play the sound of the item on a side, or stop it if it is playing; stop all other sounds.
function play(side) {
  for (const audio of document.querySelectorAll(".item audio")) {
    if (audio.closest(".card").id === side && audio.paused) audio.play().catch(() => {});
    else audio.pause();
  }
}

document.addEventListener("pointerdown", (event) => {
  const frame = event.target.closest(".frame.zoomed");
  if (!frame || !event.isPrimary) return;
  event.preventDefault(); // otherwise the browser would drag the image itself
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
