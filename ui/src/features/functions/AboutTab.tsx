/** Tab with the properties of a function. */

import { showBytes } from "../../format/amounts";
import { joinWords } from "../../format/commands";
import { Facts } from "../../format/Facts";
import { Time } from "../../format/Time";
import { Card } from "../../shell/Page";
import { NONE } from "../../table/columns";
import { showKind } from "./kinds";
import { type FunctionRecord, useCode } from "./requests";

export function AboutTab({ item }: { item: FunctionRecord }) {
  const {
    source,
    handler,
    command = [],
    args = [],
    image,
    pull_policy,
    pull_secrets = [],
    port,
  } = item.content;
  const code = useCode(item).data;
  const properties: [string, string | number | undefined | null][] = [
    ["Kind", showKind(item)],
    ["File", source],
    ["Handler", handler],
    ["Command", joinWords(command)],
    ["Arguments", joinWords(args)],
    ["Image", image],
    ["Image pull policy", pull_policy],
    ["Pull secrets", pull_secrets.join(", ")],
    ["Port", port],
    ["Code", code && `${showBytes(code.size)} compressed, ${code.digest}`],
  ];
  return (
    <Card>
      <Facts
        facts={[
          ...properties.filter(([, value]) => value),
          ["Revision", item.revision],
          ["Created by", item.created_by],
          ["Created", <Time key="created" at={item.created_at} />],
          ["Updated by", item.updated_by],
          ["Updated", <Time key="updated" at={item.updated_at} />],
          ["Last run", item.last_run_at ? <Time key="run" at={item.last_run_at} /> : NONE],
          ["ID", item.id],
        ]}
      />
    </Card>
  );
}
