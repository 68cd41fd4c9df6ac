/** The settings: what holds for the whole platform, what the server was started with, and how the page looks. */
import { useMay, useMe } from "../../api/currentUser";
import { Leaves } from "../../format/Leaves";
import { Loading } from "../../shell/Loading";
import { Card, Columns, Page } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { Appearance } from "./Appearance";
import { Defaults } from "./Defaults";
import { GpuMemoryLimits } from "./GpuMemoryLimits";
import { useSettings } from "./requests";
import { ServerFacts } from "./ServerFacts";

export default function SettingsPage() {
  const me = useMe();
  // Whoever has a role anywhere may read what holds for all.
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
      <Card title="Appearance" about="Remembered by this browser.">
        <Appearance />
      </Card>
      {settings.data && (
        <Card title="This server" about="What it was started with.">
          <ServerFacts settings={settings.data} />
        </Card>
      )}
    </>
  );
  return (
    <Page title="Settings" about={introduce(mayRead, isAdmin)}>
      {!mayRead && side}
      {mayRead && (
        <Columns side={side}>
          <Card
            title="Defaults of the platform"
            about="What a run gets where neither it, its template, its compute resource nor a policy says anything."
          >
            <ProblemAlert error={settings.error} onRetry={() => void settings.refetch()} />
            {settings.isPending && <Loading />}
            {settings.data && isAdmin && <Defaults first={settings.data} />}
            {settings.data && !isAdmin && (
              <Leaves of={settings.data.defaults} emptyText="No defaults are set." />
            )}
          </Card>
        </Columns>
      )}
    </Page>
  );
}

function introduce(mayRead: boolean, isAdmin: boolean): string {
  if (!mayRead) return "You have no role yet: what holds for the platform is shown to those who have one.";
  const about = "What holds for the whole platform.";
  return isAdmin ? about : `${about} Its administrators change it; you can read it.`;
}
