/** Where the keyboard goes once a dialog is closed. */
import { useEffect, useState } from "react";

/** Returns the focus to what had it before, for dialogs that are there only as long as they are open. */
export function useFocusBack(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      // Afterwards: as long as the dialog is there, it keeps the focus to itself.
      setTimeout(() => {
        const isLost = document.activeElement === document.body;
        if (isLost && before instanceof HTMLElement && before.isConnected) before.focus();
      });
    },
    [before],
  );
}
