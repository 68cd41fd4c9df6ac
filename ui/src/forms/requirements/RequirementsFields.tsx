/** Requirements as a form: the same for compute resources, templates, and defaults of policies and the platform. */
import { Accordion, Stack } from "@mantine/core";
import { Below } from "../findings";
import { BYTES, CORES } from "../quantities";
import { Bounded } from "./Bounded";
import type { RequirementsDraft } from "./drafts";
import { Gpu } from "./Gpu";
import { MoreSettings } from "./MoreSettings";
import { ProfileSelect } from "./ProfileSelect";

interface Props {
  /** Where they are in what is sent: "requirements", "defaults", or nothing where they stand at the top. */
  path: string;
  value: RequirementsDraft;
  onChange: (value: RequirementsDraft) => void;
  mayLimitGpuMemory: boolean;
  /** Which compute resources they may begin with, as filters of the list; left out where they may with none. */
  profiles?: Record<string, string>;
  /** Secrets to choose from; others can be typed. */
  secrets?: string[];
}

export function RequirementsFields({ path, value, onChange, mayLimitGpuMemory, profiles, secrets }: Props) {
  const change = (part: Partial<RequirementsDraft>) => onChange({ ...value, ...part });
  return (
    <Below path={path}>
      <Stack gap="lg">
        {profiles && (
          <ProfileSelect among={profiles} value={value.profile} onChange={(profile) => change({ profile })} />
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
    </Below>
  );
}
