/** Focus management for dialogs. */
import { useEffect, useState } from "react";

/** Restores the previous focus on unmount, for dialogs that are mounted only while open. */
export function useRestoreFocus(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      // Use a timeout, because the dialog traps the focus until it is unmounted.
      setTimeout(() => {
        const isLost = document.activeElement === document.body;
        if (isLost && before instanceof HTMLElement && before.isConnected) before.focus();
      });
    },
    [before],
  );
}
