// What every page does: read its data, switch between light and dark, and draw again for another width and for print.

const data = JSON.parse(document.getElementById("data").textContent);

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light mode" : "dark mode";
}

// Every button that selector finds calls choose(its data attributes) when pressed
function onPress(selector, choose) {
  for (const button of document.querySelectorAll(selector)) button.addEventListener("click", () => choose(button.dataset));
}

// Which of the buttons with data-NAME is the chosen one
function markPressed(name, chosen) {
  for (const button of document.querySelectorAll(`[data-${name}]`)) button.setAttribute("aria-pressed", button.dataset[name] === String(chosen));
}

// entries are [value, text]; choose gets the value as a string
function fillSelect(id, entries, choose) {
  const select = document.getElementById(id);
  for (const [value, text] of entries) {
    const option = element("option", "", text);
    option.value = value;
    select.append(option);
  }
  select.addEventListener("change", () => choose(select.value));
}

function start(drawAll) {
  onPress("#theme", () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); drawAll(); });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); drawAll(); });

  let width = innerWidth;
  let waiting = null;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 120);
  });

  let before = null;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.classList.add("printing");
    setTheme("light");
    drawAll();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    setTheme(before ?? "light");
    drawAll();
  });
  drawAll();
}
