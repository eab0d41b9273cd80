// A small picture for each category, drawn: the shop has no photographs.

const PICTURES = {
  Dairy: ["#e8f1fb", "#3b74b9", "M24 10h16v8l6 8v24a4 4 0 0 1-4 4H22a4 4 0 0 1-4-4V26l6-8zM18 32h28M24 18h16"],
  Bakery: ["#fbeedd", "#b06a1d", "M12 30c-4-8 4-16 12-14 4-5 14-5 17 0 8-1 15 7 10 14v18a4 4 0 0 1-4 4H16a4 4 0 0 1-4-4zM24 24l4 10M34 22l4 12"],
  Fruit: ["#fde9ea", "#c43d4b", "M32 20c-4-6-18-4-18 10 0 12 8 22 13 22 3 0 3-2 5-2s2 2 5 2c5 0 13-10 13-22 0-14-14-16-18-10zM32 20c0-6 3-10 8-11"],
  Vegetables: ["#e7f4e6", "#3d8b3a", "M38 24L14 50c-2 2 0 4 2 3l27-22c5-5-1-12-5-7zM40 24c0-6 4-10 8-11M42 26c6-1 10-5 12-9M26 36l4 4M32 30l4 4"],
  "Meat and fish": ["#fdebe4", "#bf5a36", "M10 33c8-14 26-16 36-4l8-7v22l-8-7c-10 12-28 10-36-4zM22 30h.1M30 24c4 5 4 13 0 18"],
  Pantry: ["#f4efe2", "#8a6f2a", "M18 14h28v6H18zM20 20h24l2 30a4 4 0 0 1-4 4H22a4 4 0 0 1-4-4zM20 30h25M19 44h27"],
  Drinks: ["#e4f3f3", "#1d7f86", "M16 24h28v18a10 10 0 0 1-10 10h-8a10 10 0 0 1-10-10zM44 28h4a6 6 0 0 1 0 12h-4M24 10c-3 4 3 5 0 9M34 10c-3 4 3 5 0 9"],
  Snacks: ["#f6e9f5", "#96458d", "M14 16h36v32H14zM26 16v32M38 16v32M14 32h36"],
  Frozen: ["#e6f0fb", "#3f72c4", "M32 10v44M13 21l38 22M51 21L13 43M26 12l6 6 6-6M26 52l6-6 6 6"],
  Household: ["#eef0f3", "#566173", "M26 10h10v8h-10zM24 18h14l6 12v20a4 4 0 0 1-4 4H22a4 4 0 0 1-4-4V30zM36 12h8l4 4M18 38h26"],
};

/** The picture of a product, as a piece of the page. */
export function picture(category) {
  const [ground, ink, path] = PICTURES[category] ?? PICTURES.Pantry;
  const frame = document.createElement("div");
  frame.className = "picture";
  frame.style.background = ground;
  frame.innerHTML = `<svg viewBox="0 0 64 64" aria-hidden="true"><path d="${path}" fill="none" stroke="${ink}"
    stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"/></svg>`;
  return frame;
}
