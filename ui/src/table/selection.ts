/** The selected row of a table. */
import { useState } from "react";

/** The selected item, which is null after it is deleted, and a function to select another one. */
export function useSelection<Item extends { id: string }>(items: Item[]) {
  const [id, setId] = useState<string | null>(null);
  const selected = items.find((item) => item.id === id) ?? null;
  return { selected, select: (item: Item | null) => setId(item?.id ?? null) };
}
