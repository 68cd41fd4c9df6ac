/** The organization: the tree, and the place in it that the address names. */
import { Paper, Text } from "@mantine/core";
import { useSearchParams } from "wouter";
import { type Place, usePlaces } from "../../api/places";
import { PlaceTree } from "../../scopes/PlaceTree";
import { Card, Page } from "../../shell/Page";
import { ProblemPage } from "../../shell/Problem";
import { Waiting } from "../../shell/Waiting";
import classes from "./Organization.module.css";
import { PlacePanel } from "./PlacePanel";

export default function Organization() {
  const places = usePlaces();
  const [params, setParams] = useSearchParams();
  if (places.error && !places.data) {
    return (
      <ProblemPage
        error={places.error}
        title="The organization cannot be shown"
        onRetry={() => void places.refetch()}
      />
    );
  }
  if (!places.data) return <Waiting />;
  // A "+" that somebody typed is read as a space, which no name has.
  const scope = params.get("scope")?.replaceAll(" ", "+") ?? topOf(places.data);
  return <View places={places.data} scope={scope} onChoose={(next) => setParams({ scope: next })} />;
}

interface Props {
  places: Place[];
  scope: string;
  onChoose: (scope: string) => void;
}

function View({ places, scope, onChoose }: Props) {
  const place = places.find((one) => one.scope === scope);
  return (
    <Page
      title="Organization"
      about="Places, who may do what there, and what they may hold. What is set at a place reaches everything below it."
    >
      <div className={classes.columns}>
        <Paper withBorder className={classes.tree}>
          <PlaceTree label="Places" places={places} marked={scope} onChoose={onChoose} />
        </Paper>
        {place ? (
          <PlacePanel key={place.id} place={place} places={places} onChoose={onChoose} />
        ) : (
          <Card>
            <Text size="sm">
              {places.length > 0
                ? `There is no ${scope}, or you do not see it.`
                : "You have no role yet, so you see no place. Ask an administrator for one."}
            </Text>
          </Card>
        )}
      </div>
    </Page>
  );
}

function topOf(places: Place[]): string {
  return places.find((place) => place.kind === "platform")?.scope ?? places[0]?.scope ?? "platform";
}
