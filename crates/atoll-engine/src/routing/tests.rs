//! The choice of a tier: what each fact does to it.

use super::*;
use crate::policy::inline;
use atoll_core::{Severity, Verdict};
use serde_json::json;

static NOTHING: BTreeMap<Tier, String> = BTreeMap::new();

fn facts<'a>(asked: Option<Tier>, needs: &'a Needs, missing: &'a BTreeMap<Tier, String>) -> Facts<'a> {
    Facts {
        asked,
        needs,
        floor: None,
        missing,
    }
}

fn pandas() -> Needs {
    Needs::More("the code imports pandas".to_owned())
}

fn at_least(tier: Tier) -> Option<Floor> {
    let because = "policy p".to_owned();
    Some(Floor { tier, because })
}

#[test]
fn auto_takes_the_cheapest_that_can_run_the_code() {
    let plain = choose(&facts(Some(Tier::Auto), &Needs::Plain, &NOTHING)).unwrap();
    assert_eq!((plain.tier, plain.next), (Tier::Wasm, Some(Tier::Jail)));
    assert_eq!(plain.reason, "the code is plain Python");
    let more = choose(&facts(Some(Tier::Auto), &pandas(), &NOTHING)).unwrap();
    assert_eq!((more.tier, more.next), (Tier::Jail, None));
    assert_eq!(more.reason, "the code imports pandas");
}

#[test]
fn only_what_auto_tries_in_wasm_goes_elsewhere_if_wasm_is_not_available() {
    let chosen = |asked, needs: &Needs| choose(&facts(asked, needs, &NOTHING)).unwrap();
    let tried = chosen(Some(Tier::Auto), &Needs::Plain);
    let instead = Chosen {
        tier: Tier::Jail,
        reason: "it is being built".to_owned(),
        next: None,
    };
    assert_eq!(tried.instead("it is being built"), Some(instead));
    for (asked, needs) in [
        (Some(Tier::Wasm), Needs::Plain),
        (Some(Tier::Auto), pandas()),
        (None, Needs::Plain),
    ] {
        assert_eq!(chosen(asked, &needs).instead("it is being built"), None, "{asked:?}");
    }
}

#[test]
fn a_floor_raises_and_a_missing_tier_never_lowers() {
    let gvisor = Facts {
        floor: at_least(Tier::Gvisor),
        ..facts(Some(Tier::Auto), &Needs::Plain, &NOTHING)
    };
    let chosen = choose(&gvisor).unwrap();
    assert_eq!((chosen.tier, chosen.next), (Tier::Gvisor, None));
    assert_eq!(chosen.reason, "policy p requires at least gvisor");
    let missing = BTreeMap::from([(Tier::Gvisor, "no runsc".to_owned())]);
    let stronger = Facts {
        missing: &missing,
        ..gvisor.clone()
    };
    let chosen = choose(&stronger).unwrap();
    assert_eq!(chosen.tier, Tier::Microvm);
    assert!(
        chosen
            .reason
            .ends_with("gvisor is not available on this host: no runsc"),
        "{}",
        chosen.reason
    );
    let both = BTreeMap::from([
        (Tier::Gvisor, "no runsc".to_owned()),
        (Tier::Microvm, "no qemu".to_owned()),
    ]);
    let none = Facts {
        missing: &both,
        ..gvisor
    };
    let why = "no runsc".to_owned();
    assert_eq!(
        choose(&none),
        Err(NoTier::Missing {
            tier: Tier::Gvisor,
            why
        })
    );
}

#[test]
fn a_named_tier_is_that_tier_or_an_error() {
    for tier in ORDER {
        let chosen = choose(&facts(Some(tier), &pandas(), &NOTHING)).unwrap();
        assert_eq!((chosen.tier, chosen.next), (tier, None));
        let missing = BTreeMap::from([(tier, "not here".to_owned())]);
        let why = "not here".to_owned();
        let refused = choose(&facts(Some(tier), &Needs::Plain, &missing));
        assert_eq!(refused, Err(NoTier::Missing { tier, why }));
    }
}

#[test]
fn a_tier_below_the_floor_is_denied_with_what_to_ask_for() {
    let below = Facts {
        floor: at_least(Tier::Gvisor),
        ..facts(Some(Tier::Jail), &Needs::Plain, &NOTHING)
    };
    let refusal = choose(&below).unwrap_err().refusal().unwrap();
    assert_eq!(refusal.outcome, Outcome::Denied);
    assert_eq!(
        refusal.error.value,
        "tier jail is not allowed: policy p requires at least gvisor"
    );
    assert_eq!(refusal.hint.unwrap().instead, "request tier gvisor or auto");
    let above = Facts {
        asked: Some(Tier::Microvm),
        ..below
    };
    assert_eq!(choose(&above).unwrap().tier, Tier::Microvm);
}

#[test]
fn who_names_none_gets_the_jail_or_what_the_policy_demands() {
    let said_nothing = facts(None, &Needs::Plain, &NOTHING);
    assert_eq!(choose(&said_nothing).unwrap().tier, Tier::Jail);
    let raised = Facts {
        floor: at_least(Tier::Container),
        ..said_nothing.clone()
    };
    assert_eq!(choose(&raised).unwrap().tier, Tier::Container);
    assert_eq!(
        instead_of_jail(&said_nothing, "no user namespaces").unwrap().tier,
        Tier::Wasm
    );
    assert_eq!(instead_of_jail(&raised, "x"), None);
    assert_eq!(instead_of_jail(&facts(None, &pandas(), &NOTHING), "x"), None);
    let named = facts(Some(Tier::Jail), &Needs::Plain, &NOTHING);
    assert_eq!(instead_of_jail(&named, "x"), None);
}

#[test]
fn a_finding_raises_the_floor_of_its_code_only() {
    let policy = inline(&json!({
        "inherit": "standard",
        "tiers": {"floor": "jail", "rules": {"process": "gvisor", "process.shell": "microvm"}},
    }))
    .unwrap();
    let finding = |rule: &str| Finding {
        rule: rule.to_owned(),
        severity: Severity::Low,
        verdict: Verdict::Allow,
        line: 1,
        column: 1,
        message: String::new(),
        instead: String::new(),
    };
    assert_eq!(floor(&policy, &[]).unwrap().tier, Tier::Jail);
    assert_eq!(floor(&policy, &[finding("file.read")]).unwrap().tier, Tier::Jail);
    assert_eq!(
        floor(&policy, &[finding("process.control")]).unwrap().tier,
        Tier::Gvisor
    );
    let raised = floor(&policy, &[finding("process.control"), finding("process.shell")]).unwrap();
    assert_eq!(raised.tier, Tier::Microvm);
    assert_eq!(raised.because, "rule process.shell of policy inline");
}

#[test]
fn a_guest_in_software_is_for_who_names_it_and_for_nobody_who_demands_a_wall() {
    let emulated = || Some("no cr3".to_owned());
    let floor = at_least(Tier::Microvm);
    let named = missing_for(None, &NOTHING, emulated);
    let chosen = choose(&facts(Some(Tier::Microvm), &Needs::Plain, &named)).unwrap();
    assert_eq!(chosen.tier, Tier::Microvm);
    for asked in [None, Some(Tier::Auto), Some(Tier::Microvm)] {
        let missing = missing_for(floor.as_ref(), &NOTHING, emulated);
        let demanding = Facts {
            floor: floor.clone(),
            ..facts(asked, &Needs::Plain, &missing)
        };
        let refused = choose(&demanding).unwrap_err();
        let NoTier::Missing { tier, why } = refused else {
            panic!("{refused:?}");
        };
        assert!(
            tier == Tier::Microvm && why.contains("not an isolation boundary"),
            "{why}"
        );
        assert_eq!(missing_for(floor.as_ref(), &NOTHING, || None), NOTHING);
    }
    let below = at_least(Tier::Jail);
    assert_eq!(missing_for(below.as_ref(), &NOTHING, emulated), NOTHING);
}

/// What does not count is not looked for: whatever is missing of it, the choice is the same.
#[test]
fn what_is_not_looked_for_changes_nothing() {
    let all: BTreeMap<Tier, String> = ORDER
        .into_iter()
        .filter(|tier| *tier != Tier::Jail)
        .map(|tier| (tier, "not there".to_owned()))
        .collect();
    let asked = [None, Some(Tier::Auto)].into_iter().chain(ORDER.map(Some));
    let needs = [Needs::Plain, Needs::More("pandas".to_owned())];
    for (asked, needs) in asked.flat_map(|asked| needs.iter().map(move |needs| (asked, needs))) {
        for floor in std::iter::once(None).chain(ORDER.map(at_least)) {
            let seen: BTreeMap<_, _> = all
                .clone()
                .into_iter()
                .filter(|(tier, _)| counts(*tier, asked, floor.as_ref()))
                .collect();
            let chosen = [&all, &seen].map(|missing| {
                let floor = floor.clone();
                choose(&Facts {
                    floor,
                    ..facts(asked, needs, missing)
                })
            });
            assert_eq!(chosen[0], chosen[1], "{asked:?} {floor:?} {needs:?}");
        }
    }
}
