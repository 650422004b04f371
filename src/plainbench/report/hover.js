// The values under the pointer, and the same time in all plots.
const plots = JSON.parse(document.getElementById("plots").textContent);
const box = document.getElementById("values");
const all = [...document.querySelectorAll("svg[data-plot]")];

function leave() {
  box.style.display = "none";
  for (const svg of all) svg.querySelector(".cursor").style.visibility = "hidden";
}

function move(svg, event) {
  const place = svg.getBoundingClientRect();
  const x = ((event.clientX - place.left) / place.width) * plots.width;
  const step = Math.floor(((x - plots.left) / (plots.right - plots.left)) * plots.steps);
  if (step < 0 || step >= plots.steps) return leave();
  const middle = plots.left + ((step + 0.5) / plots.steps) * (plots.right - plots.left);
  for (const other of all) {
    const line = other.querySelector(".cursor");
    line.setAttribute("x1", middle);
    line.setAttribute("x2", middle);
    line.style.visibility = "visible";
  }
  const from = (step * plots.step).toFixed(plots.step < 1 ? 2 : 0);
  const lines = plots.lines[svg.dataset.plot].map(([name, values]) => `${name}  ${values[step] ?? "–"}`);
  box.textContent = [`${from} s`, ...lines].join("\n");
  box.style.display = "block";
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8)}px`;
}

for (const svg of all) {
  svg.addEventListener("pointermove", (event) => move(svg, event));
  svg.addEventListener("pointerleave", leave);
}
