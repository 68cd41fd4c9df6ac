/** Tabs that each have a URL, so that links, new windows and the back button work. */
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
  parts: Part[];
  chosen: string;
  /** The URL of the first tab. The URLs of the other tabs are below it. */
  address: string;
}

export function TabLinks({ label, parts, chosen, address }: Props) {
  const part = parts.find((each) => each.name === chosen);
  const list = useRef<HTMLDivElement>(null);
  // On a narrow screen, the active tab may be outside the visible area.
  useEffect(() => {
    const tab = list.current?.querySelector(`a[id$="-tab-${chosen}"]`);
    tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen]);
  return (
    // Arrow keys move the focus without opening each tab.
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

/** Typed as object, because Mantine's types only allow buttons as tabs. */
function linkTo(href: string): object {
  return { component: Link, href };
}
