/** The settings page: platform defaults, the server's startup configuration, and appearance. */
import { useMay, useMe } from "../../api/currentUser";
import { useSettings } from "../../api/settings";
import { Leaves } from "../../format/Leaves";
import { Loading } from "../../shell/Loading";
import { Card, Columns, Page } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { Appearance } from "./Appearance";
import { Defaults } from "./Defaults";
import { GpuMemoryLimits } from "./GpuMemoryLimits";
import { ServerFacts } from "./ServerFacts";

export default function SettingsPage() {
  const me = useMe();
  // Any role in any scope allows reading the platform settings.
  const mayRead = (me.data?.roles.length ?? 0) > 0;
  const settings = useSettings(mayRead);
  const isAdmin = useMay()("admin", "platform");
  const side = (
    <>
      {mayRead && (
        <Card title="GPU resource optimization">
          <GpuMemoryLimits />
        </Card>
      )}
      <Card title="Appearance" about="Stored in this browser.">
        <Appearance />
      </Card>
      {settings.data && (
        <Card title="This server" about="Startup configuration.">
          <ServerFacts settings={settings.data} />
        </Card>
      )}
    </>
  );
  return (
    <Page title="Settings" about={describe(mayRead, isAdmin)}>
      {!mayRead && side}
      {mayRead && (
        <Columns side={side}>
          <Card title="Platform defaults" about="Used when nothing else sets a value.">
            <ProblemAlert error={settings.error} onRetry={() => void settings.refetch()} />
            {settings.isPending && <Loading />}
            {settings.data && isAdmin && <Defaults initial={settings.data} />}
            {settings.data && !isAdmin && <Leaves of={settings.data.defaults} emptyText="No defaults set." />}
          </Card>
        </Columns>
      )}
    </Page>
  );
}

function describe(mayRead: boolean, isAdmin: boolean): string {
  if (!mayRead) return "You need a role to see the platform settings.";
  const about = "Platform-wide settings.";
  return isAdmin ? about : `${about} Only administrators can change them.`;
}
