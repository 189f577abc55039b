package claude_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// everything holds for tasks however their claude is started.
var everything = map[string]func(*testing.T){
	"TestSuccessHasOutputMetricsAndEvents":              TestSuccessHasOutputMetricsAndEvents,
	"TestToolUseEditsAFileInTheWorkdir":                 TestToolUseEditsAFileInTheWorkdir,
	"TestJSONOutputLosesItsFence":                       TestJSONOutputLosesItsFence,
	"TestJSONOutputIsRepairedOnceInTheSameSession":      TestJSONOutputIsRepairedOnceInTheSameSession,
	"TestJSONOutputThatStaysInvalidFails":               TestJSONOutputThatStaysInvalidFails,
	"TestResumeCarriesTheFirstTasksMessages":            TestResumeCarriesTheFirstTasksMessages,
	"TestAResumedTaskIsChargedForItselfOnly":            TestAResumedTaskIsChargedForItselfOnly,
	"TestARateLimitWithAResetTimeReleasesTheTask":       TestARateLimitWithAResetTimeReleasesTheTask,
	"TestALostSessionIsReplacedAndReported":             TestALostSessionIsReplacedAndReported,
	"TestASuccessIsNotRepeatedForWhatIsOnStderr":        TestASuccessIsNotRepeatedForWhatIsOnStderr,
	"TestTwoTasksOfOneContextForkTheSession":            TestTwoTasksOfOneContextForkTheSession,
	"TestTimeoutEndsTheRun":                             TestTimeoutEndsTheRun,
	"TestSilenceEndsTheRun":                             TestSilenceEndsTheRun,
	"TestTheCauseOfACancelledContextDecides":            TestTheCauseOfACancelledContextDecides,
	"TestAHookThatHangsCostsOneTimeLimit":               TestAHookThatHangsCostsOneTimeLimit,
	"TestBudgetIsEnforced":                              TestBudgetIsEnforced,
	"TestNotLoggedIn":                                   TestNotLoggedIn,
	"TestAPIErrorsHaveTheirClasses":                     TestAPIErrorsHaveTheirClasses,
	"TestCLIMissing":                                    TestCLIMissing,
	"TestHostilePromptsStayPrompts":                     TestHostilePromptsStayPrompts,
	"TestALineOfTwentyMegabytes":                        TestALineOfTwentyMegabytes,
	"TestTheEnvironmentIsAnAllowList":                   TestTheEnvironmentIsAnAllowList,
	"TestHintsAreInThePromptAndMissingOnesInTheEvents":  TestHintsAreInThePromptAndMissingOnesInTheEvents,
	"TestAttachmentsAreInTheFolderAndNamedInThePrompt":  TestAttachmentsAreInTheFolderAndNamedInThePrompt,
	"TestATaskWithoutItsAttachmentsFailsBeforeItBegins": TestATaskWithoutItsAttachmentsFailsBeforeItBegins,
	"TestAgents": TestAgents,
	"TestTheCannedDemonstrationWritesAFileAndIsLabelled":   TestTheCannedDemonstrationWritesAFileAndIsLabelled,
	"TestASuccessWithEveryToolDeniedHasAWarning":           TestASuccessWithEveryToolDeniedHasAWarning,
	"TestOnlyACompleteAnswerIsASuccess":                    TestOnlyACompleteAnswerIsASuccess,
	"TestJSONThatWasCutOffNeedsNoRepair":                   TestJSONThatWasCutOffNeedsNoRepair,
	"TestAHookDecidesTheOutcome":                           TestAHookDecidesTheOutcome,
	"TestBackgroundWorkThatEndedWithTheTurnIsInTheOutcome": TestBackgroundWorkThatEndedWithTheTurnIsInTheOutcome,
	"TestMentionsDoNotReachFilesOutsideTheWorkdir":         TestMentionsDoNotReachFilesOutsideTheWorkdir,
	"TestMentionsOfLinksAndPipesDoNotReachOutside":         TestMentionsOfLinksAndPipesDoNotReachOutside,
	"TestOrdinaryAtSignsStayAsTheyAre":                     TestOrdinaryAtSignsStayAsTheyAre,
	"TestKillNineOfTheWorkerLeavesNoClaudeNorChildOfIt":    TestKillNineOfTheWorkerLeavesNoClaudeNorChildOfIt,
}

// withWarm is the test whose harnesses have warm processes.
const withWarm = "TestEverythingHoldsWithWarmProcesses"

func TestEverythingHoldsWithWarmProcesses(t *testing.T) {
	t.Parallel()
	for name, test := range everything {
		t.Run(name, test)
	}
}

// warmIn is how many processes a test's harness keeps alive unless it says so.
func warmIn(t *testing.T) int {
	if strings.HasPrefix(t.Name(), withWarm+"/") {
		return 1
	}
	return 0
}

func TestNoTestOfARunIsLeftOutWithWarmProcesses(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"answers_test.go", "run_test.go", "json_test.go", "sessions_test.go", "stop_test.go", "api_errors_test.go", "prompt_test.go", "warnings_test.go", "kill_test.go", "guard_test.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && everything[f.Name.Name] == nil {
				t.Errorf("%s is not run with warm processes", f.Name.Name)
			}
		}
	}
}
