/** What is said at one scope, as a form. */
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { Card } from "../../shell/Page";
import { LimitFactors, Quota } from "./Amounts";
import type { PolicyDraft } from "./drafts";
import { Rules } from "./Rules";
import { Switches } from "./Switches";

interface Props {
  draft: PolicyDraft;
  onChange: (draft: PolicyDraft) => void;
  mayLimitGpuMemory: boolean;
}

export function PolicyForm({ draft, onChange, mayLimitGpuMemory }: Props) {
  const change = (part: Partial<PolicyDraft>) => onChange({ ...draft, ...part });
  return (
    <>
      <Card
        title="Rules"
        about="What runs may ask for, here and below. Rules of all scopes add up: none can be loosened below."
      >
        <Rules rows={draft.rules} onChange={(rules) => change({ rules })} />
      </Card>
      <Card title="Switches" about="What may be done at all. Of the scopes that say one, the strictest wins.">
        <Switches draft={draft} change={change} />
      </Card>
      <Card
        title="Limit factors"
        about="The limit of a request that has none of its own. The nearest scope wins."
      >
        <LimitFactors draft={draft} change={change} />
      </Card>
      <Card title="Quota" about="What all runs here and below may hold together.">
        <Quota draft={draft} change={change} />
      </Card>
      <Card title="Defaults" about="What a run gets where nobody says anything. The nearest scope wins.">
        <RequirementsFields
          path="defaults"
          profiles={{}}
          value={draft.defaults}
          onChange={(defaults) => change({ defaults })}
          mayLimitGpuMemory={mayLimitGpuMemory}
        />
      </Card>
    </>
  );
}
