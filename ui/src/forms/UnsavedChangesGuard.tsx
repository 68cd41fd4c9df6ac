/** Asks for confirmation before the user navigates away or closes the tab with unsaved changes. */
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { ConfirmDialog } from "../shell/ConfirmDialog";

/** The subset of the Navigation API used here. TypeScript and some browsers do not support it yet. */
type NavigateEvent = Event & { navigationType: string; destination: { url: string } };
interface Navigation {
  addEventListener: (type: "navigate", listener: (event: NavigateEvent) => void) => void;
  removeEventListener: (type: "navigate", listener: (event: NavigateEvent) => void) => void;
}
const { navigation } = window as { navigation?: Navigation };

export function UnsavedChangesGuard({ isDirty }: { isDirty: boolean }) {
  const [target, setTarget] = useState<string | null>(null);
  const [, go] = useLocation();
  useEffect(() => {
    if (!isDirty) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    // Listens in the capture phase, because link handlers run later.
    const confirmClick = (event: MouseEvent) => {
      const address = findAddress(event);
      if (address === null) return;
      event.preventDefault();
      event.stopPropagation();
      setTarget(address);
    };
    // Handles Back and Forward in browsers that support the Navigation API.
    const confirmTraversal = (event: NavigateEvent) => {
      if (event.navigationType !== "traverse" || !event.cancelable) return;
      event.preventDefault();
      const { pathname, search } = new URL(event.destination.url);
      setTarget(pathname + search);
    };
    navigation?.addEventListener("navigate", confirmTraversal);
    window.addEventListener("beforeunload", warn);
    document.addEventListener("click", confirmClick, { capture: true });
    return () => {
      navigation?.removeEventListener("navigate", confirmTraversal);
      window.removeEventListener("beforeunload", warn);
      document.removeEventListener("click", confirmClick, { capture: true });
    };
  }, [isDirty]);
  if (target === null) return null;
  return (
    <ConfirmDialog
      title="Leave without saving?"
      submitLabel="Leave"
      onClose={() => setTarget(null)}
      onConfirm={() => go(target)}
    >
      Your changes will be lost.
    </ConfirmDialog>
  );
}

/** Returns the in-app URL that a click opens in this tab, or null. */
function findAddress(event: MouseEvent): string | null {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return null;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const address = link?.getAttribute("href");
  // For sign-in and download links, the beforeunload handler asks for confirmation.
  const isInApp = address?.startsWith("/") && !/^\/(login|api)\b/.test(address);
  return address && isInApp && !link?.getAttribute("target") ? address : null;
}
