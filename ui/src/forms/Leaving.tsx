/** Asks before what was typed is lost: by another address of the page, or by leaving it altogether. */
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { ConfirmDialog } from "../shell/ConfirmDialog";

/** The part of the Navigation API that is used here; TypeScript does not know it yet, nor every browser. */
type Going = Event & { navigationType: string; destination: { url: string } };
interface Navigation {
  addEventListener: (type: "navigate", listener: (event: Going) => void) => void;
  removeEventListener: (type: "navigate", listener: (event: Going) => void) => void;
}
const { navigation } = window as { navigation?: Navigation };

export function Leaving({ isDirty }: { isDirty: boolean }) {
  const [wanted, setWanted] = useState<string | null>(null);
  const [, go] = useLocation();
  useEffect(() => {
    if (!isDirty) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    // Before the links themselves hear of it.
    const hold = (event: MouseEvent) => {
      const address = findAddress(event);
      if (address === null) return;
      event.preventDefault();
      event.stopPropagation();
      setWanted(address);
    };
    // Back and Forward, in browsers that let a page have a say.
    const holdBack = (event: Going) => {
      if (event.navigationType !== "traverse" || !event.cancelable) return;
      event.preventDefault();
      const { pathname, search } = new URL(event.destination.url);
      setWanted(pathname + search);
    };
    navigation?.addEventListener("navigate", holdBack);
    window.addEventListener("beforeunload", warn);
    document.addEventListener("click", hold, { capture: true });
    return () => {
      navigation?.removeEventListener("navigate", holdBack);
      window.removeEventListener("beforeunload", warn);
      document.removeEventListener("click", hold, { capture: true });
    };
  }, [isDirty]);
  if (wanted === null) return null;
  return (
    <ConfirmDialog
      title="Leave without saving?"
      submitLabel="Leave"
      onClose={() => setWanted(null)}
      onConfirm={() => go(wanted)}
    >
      What you changed here is not saved.
    </ConfirmDialog>
  );
}

/** Where a click leads within the page; null for any other click, and where it opens another tab. */
function findAddress(event: MouseEvent): string | null {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return null;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const address = link?.getAttribute("href");
  // Not to the identity provider, and no downloads: about those the browser asks.
  const isOurs = address?.startsWith("/") && !/^\/(login|api)\b/.test(address);
  return address && isOurs && !link?.getAttribute("target") ? address : null;
}
