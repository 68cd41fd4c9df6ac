/** A run at a glance: why it waits or failed, what happened when, what came of it, and the facts. */
import type { Run } from "../../../../api/runs";
import { Columns } from "../../../../shell/Page";
import { Attempts } from "./Attempts";
import { ResultCard } from "./ResultCard";
import { RunFacts } from "./RunFacts";
import { ServedCard } from "./ServedCard";
import { StateTimeline } from "./StateTimeline";
import { WhyItFailed } from "./WhyItFailed";
import { useWaysOut, WhyItWaits } from "./WhyItWaits";

/** Before it has a place, and while a cluster looks for one. */
const WAITING = ["queued", "pending"];

export function Overview({ run }: { run: Run }) {
  const ways = useWaysOut(run);
  return (
    <Columns side={<RunFacts run={run} />}>
      {run.action !== "job" && run.live && <ServedCard run={run} />}
      {WAITING.includes(run.state) && <WhyItWaits run={run} ways={ways} />}
      {run.state === "failed" && <WhyItFailed run={run} />}
      <ResultCard run={run} isInPassing />
      <StateTimeline run={run} />
      <Attempts run={run} />
    </Columns>
  );
}
