/** Number of workloads or templates that use an asset. Clicking it lists them. */
import { Anchor, ScrollArea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Dialog } from "../../shell/Dialog";
import type { Asset } from "./requests";

interface Props {
  item: Asset;
  field: "workloads" | "templates";
  /** The list, loaded when the dialog opens. */
  children: ReactNode;
}

export function UsageLink({ item, field, children }: Props) {
  const [isOpen, { open, close }] = useDisclosure();
  const count = item[field] ?? 0;
  const title = field === "workloads" ? "Workloads" : "Templates";
  return (
    <>
      <Anchor
        component="button"
        type="button"
        fz="inherit"
        onClick={open}
        aria-label={`${count} ${field} using ${item.name}`}
      >
        {count}
      </Anchor>
      {isOpen && (
        <Dialog onClose={close} size="lg" title={`${title} using ${item.name}`}>
          <ScrollArea.Autosize mah="60vh">{children}</ScrollArea.Autosize>
        </Dialog>
      )}
    </>
  );
}
