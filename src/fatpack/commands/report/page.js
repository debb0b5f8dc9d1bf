"use strict";
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const number = (value) => value.toLocaleString("en-US");

  // What is below the pointer, at once; without this script the browser shows the same titles after a while.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let shown = null;
  const titleOf = (node) => {
    for (let at = node; at && at.closest; at = at.parentNode) {
      if (at.tagName === "svg") return null;
      const first = at.querySelector && at.querySelector(":scope > title");
      if (first) return first;
    }
    return null;
  };
  const words = new WeakMap();
  document.addEventListener("pointermove", (event) => {
    const found = event.target.closest && event.target.closest("svg.pic") ? titleOf(event.target) : null;
    if (!found) {
      tip.hidden = true;
      shown = null;
      return;
    }
    if (found !== shown) {
      if (!words.has(found)) {
        words.set(found, found.textContent);
        found.textContent = ""; // else the browser shows a second one
        found.parentNode.setAttribute("aria-label", words.get(found));
      }
      const [first, ...rest] = words.get(found).split("\n");
      const head = document.createElement("b");
      head.textContent = first;
      tip.replaceChildren(head, rest.join("\n"));
      shown = found;
    }
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10}px`;
  });

  for (const box of all(".filter")) box.hidden = false;

  // Tables: rows that have all words of the filter, in the order of a column.
  for (const box of all("input[data-for]")) {
    const body = document.getElementById(box.dataset.for).tBodies[0];
    const count = document.querySelector(`output[data-of="${box.dataset.for}"]`);
    const rows = [...body.rows];
    let texts = null;
    const filter = () => {
      texts = texts || rows.map((row) => row.textContent.toLowerCase());
      const wanted = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      rows.forEach((row, at) => {
        const has = wanted.every((word) => texts[at].includes(word));
        row.hidden = !has;
        left += has;
      });
      count.textContent = wanted.length ? `${number(left)} of ${number(rows.length)}` : "";
    };
    box.addEventListener("input", filter);
  }
  for (const table of all("table.sorted")) {
    all("thead th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === (head.classList.contains("n") ? "descending" : "ascending");
        const order = head.classList.contains("n") === down ? "ascending" : "descending";
        all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const body = table.tBodies[0];
        const keyed = [...body.rows].map((row) => {
          const cell = row.cells[column];
          return [cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v), row];
        });
        keyed.sort(([a], [b]) => sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true })));
        body.append(...keyed.map(([, row]) => row));
      });
    });
  }

  // Kernels by name: each list shows the lines that have all words, and opens if there are some.
  const names = document.querySelector("input[data-names]");
  if (names) {
    const lists = all(".matrix pre").map((node) => [node, node.textContent]);
    const single = all(".matrix tbody tr").filter((row) => !row.querySelector("pre"));
    const count = document.querySelector('output[data-of="names"]');
    let waiting = 0;
    const filter = () => {
      const wanted = names.value.toLowerCase().split(/\s+/).filter(Boolean);
      const has = (text) => wanted.every((word) => text.toLowerCase().includes(word));
      let left = 0;
      for (const [node, text] of lists) {
        const lines = wanted.length ? text.split("\n").filter(has) : null;
        node.textContent = lines ? lines.join("\n") : text;
        node.closest("details").open = Boolean(lines && lines.length);
        node.closest("tr").hidden = Boolean(lines && !lines.length);
        left += lines ? lines.length : 0;
      }
      for (const row of single) {
        row.hidden = Boolean(wanted.length && !has(row.cells[0].textContent));
        left += !row.hidden;
      }
      count.textContent = wanted.length ? `${number(left)} of the kernels that are listed` : "";
    };
    names.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 80);
    });
  }

  // On paper, what is folded is not there.
  addEventListener("beforeprint", () => all("details.regions").forEach((node) => (node.open = true)));
})();
