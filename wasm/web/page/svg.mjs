// The little of SVG that the page's two pictures need.

const space = 'http://www.w3.org/2000/svg';

/** A new SVG element with attributes, put into parent; text may stand in it. */
export function draw(parent, name, attributes = {}, text = '') {
  const e = document.createElementNS(space, name);
  set(e, attributes);
  if (text) e.textContent = text;
  parent.append(e);
  return e;
}

/** Sets attributes of an element. */
export function set(e, attributes) {
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
}
