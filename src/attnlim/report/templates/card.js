// The card beside the mouse that reads one place out.

function showCard(title, phase, rows, asked, mouse, note) {
  const card = document.getElementById("card");
  const heading = element("div", "title");
  heading.append(element("span", "", title));
  if (phase) heading.append(element("span", `chip ${phase}`, phase));
  else if (phase === null) heading.append(element("span", "na", "phase n/a"));
  const list = element("dl");
  for (const [key, name, text] of rows) {
    const className = key && key === asked ? "asked" : "";
    list.append(element("dt", className, name), element("dd", className, text));
  }
  card.replaceChildren(heading, list);
  if (note) card.append(element("div", "na", note));
  card.hidden = false;
  const [width, height] = [card.offsetWidth, card.offsetHeight];
  const left = mouse.clientX + 16 + width < innerWidth ? mouse.clientX + 16 : mouse.clientX - 16 - width;
  const top = mouse.clientY + 14 + height < innerHeight ? mouse.clientY + 14 : mouse.clientY - 14 - height;
  card.style.left = `${Math.max(4, left)}px`;
  card.style.top = `${Math.max(4, top)}px`;
}

function hideCard() {
  document.getElementById("card").hidden = true;
  for (const ring of document.querySelectorAll(".ring")) ring.remove();
}
