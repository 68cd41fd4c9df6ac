/** Parts of a page, each with an address of its own: it can be shared, opened beside, and left by going back. */
import { Tabs } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";
import { Link } from "wouter";
import classes from "./TabLinks.module.css";

export interface Part {
  name: string;
  title: string;
  render: () => ReactNode;
}

interface Props {
  label: string;
  /** The first is at the address itself, the others below it. */
  parts: Part[];
  chosen: string;
  address: string;
}

export function TabLinks({ label, parts, chosen, address }: Props) {
  const part = parts.find((each) => each.name === chosen);
  const list = useRef<HTMLDivElement>(null);
  // On a narrow screen not all of them are in sight.
  useEffect(() => {
    const tab = list.current?.querySelector(`a[id$="-tab-${chosen}"]`);
    tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen]);
  return (
    // The keyboard goes from tab to tab without opening each on the way.
    <Tabs value={chosen} activateTabWithKeyboard={false} keepMounted={false}>
      <Tabs.List ref={list} mb="md" aria-label={label} className={classes.list}>
        {parts.map(({ name, title }, index) => (
          <Tabs.Tab key={name} value={name} {...linkTo(index === 0 ? address : `${address}/${name}`)}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={chosen}>{part?.render()}</Tabs.Panel>
    </Tabs>
  );
}

/** Tabs are buttons by their type, but what they are made of may be anything. */
function linkTo(href: string): object {
  return { component: Link, href };
}
