// The keys of the page. Nothing is taken from a button that has the focus, nor from the browser's own keys.

const themes = ["system", "light", "dark"];
const spans = { 1: 10, 2: 30, 3: 60 };

export function followKeys(view, redraw) {
  const dialog = document.getElementById("keys");
  const theme = document.querySelector("#theme span");

  function switchTheme() {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % themes.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.textContent = next[0].toUpperCase() + next.slice(1);
    redraw(true);
  }

  document.getElementById("pause").addEventListener("click", () => view.togglePause());
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.getElementById("help").addEventListener("click", () => dialog.showModal());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(true));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const isOnButton = event.target instanceof HTMLButtonElement;
    switch (event.key) {
      case " ":
        if (isOnButton) return;
        view.togglePause();
        break;
      case "ArrowLeft":
        view.step(-1, event.shiftKey);
        break;
      case "ArrowRight":
        view.step(1, event.shiftKey);
        break;
      case "Home":
        view.goToOldest();
        break;
      case "End":
        view.goToNow();
        break;
      case "?":
        dialog.showModal();
        break;
      case "t":
      case "T":
        switchTheme();
        break;
      case "1":
      case "2":
      case "3":
        view.setSpan(spans[event.key]);
        break;
      default:
        return;
    }
    event.preventDefault();
  });

  const chart = document.getElementById("chart");
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    chart.setPointerCapture(event.pointerId);
    view.goToPoint(event.offsetX);
  });
  chart.addEventListener("pointermove", (event) => {
    if (event.buttons & 1) view.goToPoint(event.offsetX);
  });
}
