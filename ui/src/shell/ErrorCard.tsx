import { IconExclamationCircle } from "@tabler/icons-react";
import type { Finding } from "../api/problems";
import { Card } from "./Page";
import { FindingList } from "./Problem";

/** All that is wrong with what is typed, beside the form. */
export function ErrorCard({ findings }: { findings: Finding[] }) {
  const { length: count } = findings;
  const title = (
    <>
      <IconExclamationCircle size={16} aria-hidden />{" "}
      {count === 1 ? "One thing is wrong" : `${count} things are wrong`}
    </>
  );
  return (
    <Card role="status" title={title}>
      <FindingList findings={findings} />
    </Card>
  );
}
