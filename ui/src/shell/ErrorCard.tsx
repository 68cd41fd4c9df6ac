import { IconExclamationCircle } from "@tabler/icons-react";
import type { Finding } from "../api/problems";
import { Card } from "./Page";
import { FindingList } from "./Problem";

/** All errors in a form, shown next to it. */
export function ErrorCard({ findings }: { findings: Finding[] }) {
  const { length: count } = findings;
  const title = (
    <>
      <IconExclamationCircle size={16} aria-hidden /> {count === 1 ? "1 error" : `${count} errors`}
    </>
  );
  return (
    <Card role="status" title={title}>
      <FindingList findings={findings} />
    </Card>
  );
}
