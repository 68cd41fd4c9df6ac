/** The page of one policy: what it is of, the policy itself, and what holds at its scope. */
import { Badge } from "@mantine/core";
import type { ReactNode } from "react";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { Card, Columns, Page } from "../../shell/Page";
import type { EffectivePolicy, PolicyRecord } from "./requests";
import { Statements } from "./Statements";
import { listEffective } from "./statements";

interface Props {
  scope: string;
  read: PolicyRecord | null;
  effective: EffectivePolicy;
  /** What can be done to it as a whole. */
  actions?: ReactNode;
  /** What is to be known before all else. */
  notice?: ReactNode;
  children: ReactNode;
  /** What stands above the rules that hold. */
  side?: ReactNode;
  foot?: ReactNode;
  isDirty?: boolean;
}

export function Frame({
  scope,
  read,
  effective,
  actions,
  notice,
  children,
  side,
  foot,
  isDirty = false,
}: Props) {
  return (
    <Page
      title={`Policy of ${scope}`}
      within={{ title: "Policies", href: "/policies", here: scope }}
      badges={read?.managed_by && <Badge color="gray">managed by {read.managed_by}</Badge>}
      about={<About scope={scope} read={read} />}
      actions={actions}
    >
      {notice}
      <Columns
        label="What it means"
        side={
          <>
            {side}
            <Card
              title="Effective rules"
              about={
                isDirty ? "What holds here now. Your changes count once they are saved." : "What holds here."
              }
            >
              <Statements chapters={listEffective(effective)} here={scope} />
            </Card>
          </>
        }
      >
        {children}
      </Columns>
      {foot}
    </Page>
  );
}

function About({ scope, read }: { scope: string; read: PolicyRecord | null }) {
  return (
    <>
      <ScopeLink scope={scope} />
      {read ? (
        <>
          {` · revision ${read.revision}, saved by ${read.updated_by} `}
          <Time at={read.updated_at} />
        </>
      ) : (
        " · nothing is said here yet: what holds above holds here"
      )}
    </>
  );
}
