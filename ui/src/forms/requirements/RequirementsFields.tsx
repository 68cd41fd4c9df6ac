/** Form fields for requirements, shared by runs, compute resources, templates and defaults. */
import { Accordion, Stack } from "@mantine/core";
import { FieldPath } from "../findings";
import { BYTES, CORES } from "../quantities";
import { Bounded } from "./Bounded";
import type { RequirementsDraft } from "./drafts";
import { Gpu } from "./Gpu";
import { MoreSettings } from "./MoreSettings";
import { ProfileSelect } from "./ProfileSelect";

interface Props {
  /** The path of the requirements in the request body: "requirements", "defaults", or empty for the top level. */
  path: string;
  value: RequirementsDraft;
  onChange: (value: RequirementsDraft) => void;
  mayLimitGpuMemory: boolean;
  /** Query filters for the list of compute resources to choose from. If omitted, the field is hidden. */
  profiles?: Record<string, string>;
  /** Suggested secret names. Users can enter others. */
  secrets?: string[];
}

export function RequirementsFields({ path, value, onChange, mayLimitGpuMemory, profiles, secrets }: Props) {
  const change = (part: Partial<RequirementsDraft>) => onChange({ ...value, ...part });
  return (
    <FieldPath path={path}>
      <Stack gap="lg">
        {profiles && (
          <ProfileSelect
            filters={profiles}
            value={value.profile}
            onChange={(profile) => change({ profile })}
          />
        )}
        <Gpu value={value.gpu} onChange={(gpu) => change({ gpu })} mayLimitMemory={mayLimitGpuMemory} />
        <Bounded
          title="CPU compute per pod"
          path="resources.cpu"
          units={CORES}
          value={value.cpu}
          onChange={(cpu) => change({ cpu })}
        />
        <Bounded
          title="CPU memory per pod"
          path="resources.mem"
          units={BYTES}
          value={value.mem}
          onChange={(mem) => change({ mem })}
        />
        <Accordion variant="separated" chevronPosition="left">
          <Accordion.Item value="more">
            <Accordion.Control>More settings</Accordion.Control>
            <Accordion.Panel>
              <MoreSettings value={value} change={change} secrets={secrets} />
            </Accordion.Panel>
          </Accordion.Item>
        </Accordion>
      </Stack>
    </FieldPath>
  );
}
