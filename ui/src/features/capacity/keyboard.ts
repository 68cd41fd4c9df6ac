/** Keyboard navigation in the heat map. */
import type { KeyboardEvent } from "react";

export function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const cells = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-name]")];
  const at = cells.indexOf(event.target as HTMLElement);
  if (at < 0) return;
  const next = findNext(event.key, cells, at);
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

function findNext(key: string, cells: HTMLElement[], at: number): HTMLElement | undefined {
  if (key === "ArrowRight") return cells[at + 1];
  if (key === "ArrowLeft") return cells[at - 1];
  if (key === "Home") return cells[0];
  if (key === "End") return cells.at(-1);
  if (key === "ArrowDown") return findVertical(cells.slice(at));
  if (key === "ArrowUp") return findVertical(cells.slice(0, at + 1).reverse());
}

/** The nearest cell in the next row. Compares positions, because the number of cells per row depends on the width. */
function findVertical([from, ...others]: HTMLElement[]): HTMLElement | undefined {
  const { top, left } = from!.getBoundingClientRect();
  let line: number | undefined;
  let best: HTMLElement | undefined;
  let distance = Number.POSITIVE_INFINITY;
  for (const cell of others) {
    const box = cell.getBoundingClientRect();
    if (box.top === top) continue;
    line ??= box.top;
    if (box.top !== line) break;
    if (Math.abs(box.left - left) < distance) [best, distance] = [cell, Math.abs(box.left - left)];
  }
  return best;
}
