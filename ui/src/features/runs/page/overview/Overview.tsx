/** Overview of a run: waiting or failure reason, result, timeline, attempts and facts. */
import type { Run } from "../../../../api/runs";
import { Columns } from "../../../../shell/Page";
import { Attempts } from "./Attempts";
import { EndpointCard } from "./EndpointCard";
import { FailureCard } from "./FailureCard";
import { ResultCard } from "./ResultCard";
import { RunFacts } from "./RunFacts";
import { StateTimeline } from "./StateTimeline";
import { useSuggestions, WaitingCards } from "./WaitingCards";

/** States before a run is scheduled. */
const WAITING_STATES = ["queued", "pending"];

export function Overview({ run }: { run: Run }) {
  const suggestions = useSuggestions(run);
  return (
    <Columns side={<RunFacts run={run} />}>
      {run.action !== "job" && run.active && <EndpointCard run={run} />}
      {WAITING_STATES.includes(run.state) && <WaitingCards run={run} suggestions={suggestions} />}
      {run.state === "failed" && <FailureCard run={run} />}
      <ResultCard run={run} isOptional />
      <StateTimeline run={run} />
      <Attempts run={run} />
    </Columns>
  );
}
