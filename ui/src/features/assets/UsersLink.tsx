/** How many use it; a click lists them. */
import { Anchor, ScrollArea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Dialog } from "../../shell/Dialog";
import type { Asset } from "./requests";

interface Props {
  item: Asset;
  what: "workloads" | "templates";
  /** The list, which is asked for once it is opened. */
  children: ReactNode;
}

export function UsersLink({ item, what, children }: Props) {
  const [isOpen, { open, close }] = useDisclosure();
  const count = item[what] ?? 0;
  const title = what === "workloads" ? "Workloads" : "Templates";
  return (
    <>
      <Anchor
        component="button"
        type="button"
        fz="inherit"
        onClick={open}
        aria-label={`${count} ${what} of ${item.name}`}
      >
        {count}
      </Anchor>
      {isOpen && (
        <Dialog onClose={close} size="lg" title={`${title} that use ${item.name}`}>
          <ScrollArea.Autosize mah="60vh">{children}</ScrollArea.Autosize>
        </Dialog>
      )}
    </>
  );
}
